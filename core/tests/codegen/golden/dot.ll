; r_37_29_41: dot(2, 0, 0), stage(1, 2, 32, 16)
define internal void @"r_37_29_41.body"(ptr noalias %data0, ptr noalias readonly %data1, ptr noalias readonly %data2, ptr noalias %scratch) #0 {
entry:
  %local0 = getelementptr inbounds i8, ptr %scratch, i64 0
  %acc0_0_0 = alloca <16 x float>
  %acc0_0_1 = alloca <16 x float>
  %acc0_1_0 = alloca <16 x float>
  %acc0_1_1 = alloca <16 x float>
  %mul1 = mul nsw i64 0, 16
  %mul2 = mul nsw i64 1, 16
  %first3 = insertelement <16 x i64> poison, i64 %mul1, i64 0
  %splat4 = shufflevector <16 x i64> %first3, <16 x i64> poison, <16 x i32> zeroinitializer
  %add5 = add nsw <16 x i64> %splat4, <i64 0, i64 1, i64 2, i64 3, i64 4, i64 5, i64 6, i64 7, i64 8, i64 9, i64 10, i64 11, i64 12, i64 13, i64 14, i64 15>
  %first6 = insertelement <16 x i64> poison, i64 %mul2, i64 0
  %splat7 = shufflevector <16 x i64> %first6, <16 x i64> poison, <16 x i32> zeroinitializer
  %add8 = add nsw <16 x i64> %splat7, <i64 0, i64 1, i64 2, i64 3, i64 4, i64 5, i64 6, i64 7, i64 8, i64 9, i64 10, i64 11, i64 12, i64 13, i64 14, i64 15>
  %cmplt9 = icmp slt <16 x i64> %add5, splat (i64 29)
  %cmplt10 = icmp slt <16 x i64> %add8, splat (i64 29)
  %mul11 = mul nsw i64 0, 16
  %mul12 = mul nsw i64 1, 16
  %first13 = insertelement <16 x i64> poison, i64 %mul11, i64 0
  %splat14 = shufflevector <16 x i64> %first13, <16 x i64> poison, <16 x i32> zeroinitializer
  %add15 = add nsw <16 x i64> %splat14, <i64 0, i64 1, i64 2, i64 3, i64 4, i64 5, i64 6, i64 7, i64 8, i64 9, i64 10, i64 11, i64 12, i64 13, i64 14, i64 15>
  %first16 = insertelement <16 x i64> poison, i64 %mul12, i64 0
  %splat17 = shufflevector <16 x i64> %first16, <16 x i64> poison, <16 x i32> zeroinitializer
  %add18 = add nsw <16 x i64> %splat17, <i64 0, i64 1, i64 2, i64 3, i64 4, i64 5, i64 6, i64 7, i64 8, i64 9, i64 10, i64 11, i64 12, i64 13, i64 14, i64 15>
  %cmplt19 = icmp slt <16 x i64> %add15, splat (i64 29)
  %cmplt20 = icmp slt <16 x i64> %add18, splat (i64 29)
  br label %loop7
loop7:
  %r7 = phi i64 [ 0, %entry ], [ %next7, %latch7 ]
  %mul21 = mul nsw i64 %r7, 32
  %add22 = add nsw i64 %mul11, %mul21
  %add23 = add nsw i64 %mul12, %mul21
  %mul24 = mul nsw i64 %r7, 58
  %add25 = add nsw i64 %mul11, %mul24
  %add26 = add nsw i64 %mul12, %mul24
  %bits27 = bitcast <16 x i1> %cmplt19 to i16
  %some28 = icmp ne i16 %bits27, 0
  %seen29 = select i1 %some28, i64 %add25, i64 0
  %p30 = getelementptr i16, ptr %data2, i64 %seen29
  %call31 = call <16 x i16> @llvm.masked.load.v16i16.p0(ptr %p30, i32 2, <16 x i1> %cmplt19, <16 x i16> zeroinitializer)
  %bits32 = bitcast <16 x i1> %cmplt20 to i16
  %some33 = icmp ne i16 %bits32, 0
  %seen34 = select i1 %some33, i64 %add26, i64 0
  %p35 = getelementptr i16, ptr %data2, i64 %seen34
  %call36 = call <16 x i16> @llvm.masked.load.v16i16.p0(ptr %p35, i32 2, <16 x i1> %cmplt20, <16 x i16> zeroinitializer)
  %cast37 = zext <16 x i16> %call31 to <16 x i32>
  %cast38 = zext <16 x i16> %call36 to <16 x i32>
  %add39 = add nsw i64 %add25, 29
  %add40 = add nsw i64 %add26, 29
  %bits41 = bitcast <16 x i1> %cmplt19 to i16
  %some42 = icmp ne i16 %bits41, 0
  %seen43 = select i1 %some42, i64 %add39, i64 0
  %p44 = getelementptr i16, ptr %data2, i64 %seen43
  %call45 = call <16 x i16> @llvm.masked.load.v16i16.p0(ptr %p44, i32 2, <16 x i1> %cmplt19, <16 x i16> zeroinitializer)
  %bits46 = bitcast <16 x i1> %cmplt20 to i16
  %some47 = icmp ne i16 %bits46, 0
  %seen48 = select i1 %some47, i64 %add40, i64 0
  %p49 = getelementptr i16, ptr %data2, i64 %seen48
  %call50 = call <16 x i16> @llvm.masked.load.v16i16.p0(ptr %p49, i32 2, <16 x i1> %cmplt20, <16 x i16> zeroinitializer)
  %cast51 = zext <16 x i16> %call45 to <16 x i32>
  %cast52 = zext <16 x i16> %call50 to <16 x i32>
  %shl53 = shl <16 x i32> %cast51, splat (i32 16)
  %shl54 = shl <16 x i32> %cast52, splat (i32 16)
  %or55 = or <16 x i32> %cast37, %shl53
  %or56 = or <16 x i32> %cast38, %shl54
  %p57 = getelementptr inbounds i32, ptr %local0, i64 %add22
  store <16 x i32> %or55, ptr %p57, align 4
  %p58 = getelementptr inbounds i32, ptr %local0, i64 %add23
  store <16 x i32> %or56, ptr %p58, align 4
  br label %latch7
latch7:
  %next7 = add nuw nsw i64 %r7, 1
  %more59 = icmp slt i64 %next7, 20
  br i1 %more59, label %loop7, label %exit7
exit7:
  %add60 = add nsw i64 %mul1, 1160
  %add61 = add nsw i64 %mul2, 1160
  %bits62 = bitcast <16 x i1> %cmplt9 to i16
  %some63 = icmp ne i16 %bits62, 0
  %seen64 = select i1 %some63, i64 %add60, i64 0
  %p65 = getelementptr i16, ptr %data2, i64 %seen64
  %call66 = call <16 x i16> @llvm.masked.load.v16i16.p0(ptr %p65, i32 2, <16 x i1> %cmplt9, <16 x i16> zeroinitializer)
  %bits67 = bitcast <16 x i1> %cmplt10 to i16
  %some68 = icmp ne i16 %bits67, 0
  %seen69 = select i1 %some68, i64 %add61, i64 0
  %p70 = getelementptr i16, ptr %data2, i64 %seen69
  %call71 = call <16 x i16> @llvm.masked.load.v16i16.p0(ptr %p70, i32 2, <16 x i1> %cmplt10, <16 x i16> zeroinitializer)
  %cast72 = zext <16 x i16> %call66 to <16 x i32>
  %bit73 = shl <16 x i32> %cast72, splat (i32 16)
  %cast74 = bitcast <16 x i32> %bit73 to <16 x float>
  %cast75 = zext <16 x i16> %call71 to <16 x i32>
  %bit76 = shl <16 x i32> %cast75, splat (i32 16)
  %cast77 = bitcast <16 x i32> %bit76 to <16 x float>
  %mul78 = mul nsw i64 0, 29
  %mul79 = mul nsw i64 1, 29
  br label %loop0
loop0:
  %r0 = phi i64 [ 0, %exit7 ], [ %next0, %latch0 ]
  %mul80 = mul nsw i64 %r0, 2
  %add81 = add nsw i64 %mul80, 1
  %cmplt82 = icmp slt i64 %mul80, 37
  %cmplt83 = icmp slt i64 %add81, 37
  %first84 = insertelement <16 x i1> poison, i1 %cmplt82, i64 0
  %splat85 = shufflevector <16 x i1> %first84, <16 x i1> poison, <16 x i32> zeroinitializer
  %and86 = and <16 x i1> %splat85, %cmplt9
  %and87 = and <16 x i1> %splat85, %cmplt10
  %first88 = insertelement <16 x i1> poison, i1 %cmplt83, i64 0
  %splat89 = shufflevector <16 x i1> %first88, <16 x i1> poison, <16 x i32> zeroinitializer
  %and90 = and <16 x i1> %splat89, %cmplt9
  %and91 = and <16 x i1> %splat89, %cmplt10
  store <16 x float> splat (float 0.0), ptr %acc0_0_0
  store <16 x float> splat (float 0.0), ptr %acc0_0_1
  store <16 x float> splat (float 0.0), ptr %acc0_1_0
  store <16 x float> splat (float 0.0), ptr %acc0_1_1
  %cmplt92 = icmp slt i64 36, %mul80
  %cmplt93 = icmp slt i64 36, %add81
  %where94 = select i1 %cmplt92, i64 36, i64 %mul80
  %where95 = select i1 %cmplt93, i64 36, i64 %add81
  %mul96 = mul nsw i64 %where94, 41
  %mul97 = mul nsw i64 %where95, 41
  br label %loop4
loop4:
  %r4 = phi i64 [ 0, %loop0 ], [ %next4, %latch4 ]
  %mul98 = mul nsw i64 %r4, 2
  %add99 = add nsw i64 %mul96, %mul98
  %add100 = add nsw i64 %mul97, %mul98
  %p101 = getelementptr inbounds i16, ptr %data1, i64 %add99
  %load102 = load i16, ptr %p101, align 2
  %p103 = getelementptr inbounds i16, ptr %data1, i64 %add100
  %load104 = load i16, ptr %p103, align 2
  %cast105 = zext i16 %load102 to i32
  %cast106 = zext i16 %load104 to i32
  %add107 = add nsw i64 %add99, 1
  %add108 = add nsw i64 %add100, 1
  %p109 = getelementptr inbounds i16, ptr %data1, i64 %add107
  %load110 = load i16, ptr %p109, align 2
  %p111 = getelementptr inbounds i16, ptr %data1, i64 %add108
  %load112 = load i16, ptr %p111, align 2
  %cast113 = zext i16 %load110 to i32
  %cast114 = zext i16 %load112 to i32
  %shl115 = shl i32 %cast113, 16
  %shl116 = shl i32 %cast114, 16
  %or117 = or i32 %cast105, %shl115
  %or118 = or i32 %cast106, %shl116
  %mul119 = mul nsw i64 %r4, 32
  %add120 = add nsw i64 %mul119, %mul1
  %add121 = add nsw i64 %mul119, %mul2
  %p122 = getelementptr inbounds i32, ptr %local0, i64 %add120
  %load123 = load <16 x i32>, ptr %p122, align 4
  %p124 = getelementptr inbounds i32, ptr %local0, i64 %add121
  %load125 = load <16 x i32>, ptr %p124, align 4
  %first126 = insertelement <16 x i32> poison, i32 %or117, i64 0
  %splat127 = shufflevector <16 x i32> %first126, <16 x i32> poison, <16 x i32> zeroinitializer
  %old128 = load <16 x float>, ptr %acc0_0_0
  %words129 = bitcast <16 x i32> %splat127 to <32 x bfloat>
  %words130 = bitcast <16 x i32> %load123 to <32 x bfloat>
  %dot131 = call <16 x float> @dot2(<16 x float> %old128, <32 x bfloat> %words129, <32 x bfloat> %words130)
  store <16 x float> %dot131, ptr %acc0_0_0
  %old132 = load <16 x float>, ptr %acc0_0_1
  %words133 = bitcast <16 x i32> %splat127 to <32 x bfloat>
  %words134 = bitcast <16 x i32> %load125 to <32 x bfloat>
  %dot135 = call <16 x float> @dot2(<16 x float> %old132, <32 x bfloat> %words133, <32 x bfloat> %words134)
  store <16 x float> %dot135, ptr %acc0_0_1
  %first136 = insertelement <16 x i32> poison, i32 %or118, i64 0
  %splat137 = shufflevector <16 x i32> %first136, <16 x i32> poison, <16 x i32> zeroinitializer
  %old138 = load <16 x float>, ptr %acc0_1_0
  %words139 = bitcast <16 x i32> %splat137 to <32 x bfloat>
  %words140 = bitcast <16 x i32> %load123 to <32 x bfloat>
  %dot141 = call <16 x float> @dot2(<16 x float> %old138, <32 x bfloat> %words139, <32 x bfloat> %words140)
  store <16 x float> %dot141, ptr %acc0_1_0
  %old142 = load <16 x float>, ptr %acc0_1_1
  %words143 = bitcast <16 x i32> %splat137 to <32 x bfloat>
  %words144 = bitcast <16 x i32> %load125 to <32 x bfloat>
  %dot145 = call <16 x float> @dot2(<16 x float> %old142, <32 x bfloat> %words143, <32 x bfloat> %words144)
  store <16 x float> %dot145, ptr %acc0_1_1
  br label %latch4
latch4:
  %next4 = add nuw nsw i64 %r4, 1
  %more146 = icmp slt i64 %next4, 20
  br i1 %more146, label %loop4, label %exit4
exit4:
  %get147 = load <16 x float>, ptr %acc0_0_0
  %get148 = load <16 x float>, ptr %acc0_0_1
  %get149 = load <16 x float>, ptr %acc0_1_0
  %get150 = load <16 x float>, ptr %acc0_1_1
  %add151 = add nsw i64 %mul96, 40
  %add152 = add nsw i64 %mul97, 40
  %p153 = getelementptr inbounds i16, ptr %data1, i64 %add151
  %load154 = load i16, ptr %p153, align 2
  %p155 = getelementptr inbounds i16, ptr %data1, i64 %add152
  %load156 = load i16, ptr %p155, align 2
  %cast157 = zext i16 %load154 to i32
  %bit158 = shl i32 %cast157, 16
  %cast159 = bitcast i32 %bit158 to float
  %cast160 = zext i16 %load156 to i32
  %bit161 = shl i32 %cast160, 16
  %cast162 = bitcast i32 %bit161 to float
  %first163 = insertelement <16 x float> poison, float %cast159, i64 0
  %splat164 = shufflevector <16 x float> %first163, <16 x float> poison, <16 x i32> zeroinitializer
  %mul165 = fmul <16 x float> %splat164, %cast74
  %mul166 = fmul <16 x float> %splat164, %cast77
  %first167 = insertelement <16 x float> poison, float %cast162, i64 0
  %splat168 = shufflevector <16 x float> %first167, <16 x float> poison, <16 x i32> zeroinitializer
  %mul169 = fmul <16 x float> %splat168, %cast74
  %mul170 = fmul <16 x float> %splat168, %cast77
  %add171 = fadd <16 x float> %get147, %mul165
  %add172 = fadd <16 x float> %get148, %mul166
  %add173 = fadd <16 x float> %get149, %mul169
  %add174 = fadd <16 x float> %get150, %mul170
  %cast175 = bitcast <16 x float> %add171 to <16 x i32>
  %bit176 = or <16 x i32> %cast175, splat (i32 4194304)
  %bit177 = fcmp uno <16 x float> %add171, splat (float 0.0)
  %bit178 = lshr <16 x i32> %cast175, splat (i32 16)
  %bit179 = and <16 x i32> %bit178, splat (i32 1)
  %bit180 = add <16 x i32> %cast175, splat (i32 32767)
  %bit181 = add <16 x i32> %bit180, %bit179
  %cast182 = select <16 x i1> %bit177, <16 x i32> %bit176, <16 x i32> %bit181
  %bit183 = lshr <16 x i32> %cast182, splat (i32 16)
  %cast184 = trunc <16 x i32> %bit183 to <16 x i16>
  %cast185 = bitcast <16 x float> %add172 to <16 x i32>
  %bit186 = or <16 x i32> %cast185, splat (i32 4194304)
  %bit187 = fcmp uno <16 x float> %add172, splat (float 0.0)
  %bit188 = lshr <16 x i32> %cast185, splat (i32 16)
  %bit189 = and <16 x i32> %bit188, splat (i32 1)
  %bit190 = add <16 x i32> %cast185, splat (i32 32767)
  %bit191 = add <16 x i32> %bit190, %bit189
  %cast192 = select <16 x i1> %bit187, <16 x i32> %bit186, <16 x i32> %bit191
  %bit193 = lshr <16 x i32> %cast192, splat (i32 16)
  %cast194 = trunc <16 x i32> %bit193 to <16 x i16>
  %cast195 = bitcast <16 x float> %add173 to <16 x i32>
  %bit196 = or <16 x i32> %cast195, splat (i32 4194304)
  %bit197 = fcmp uno <16 x float> %add173, splat (float 0.0)
  %bit198 = lshr <16 x i32> %cast195, splat (i32 16)
  %bit199 = and <16 x i32> %bit198, splat (i32 1)
  %bit200 = add <16 x i32> %cast195, splat (i32 32767)
  %bit201 = add <16 x i32> %bit200, %bit199
  %cast202 = select <16 x i1> %bit197, <16 x i32> %bit196, <16 x i32> %bit201
  %bit203 = lshr <16 x i32> %cast202, splat (i32 16)
  %cast204 = trunc <16 x i32> %bit203 to <16 x i16>
  %cast205 = bitcast <16 x float> %add174 to <16 x i32>
  %bit206 = or <16 x i32> %cast205, splat (i32 4194304)
  %bit207 = fcmp uno <16 x float> %add174, splat (float 0.0)
  %bit208 = lshr <16 x i32> %cast205, splat (i32 16)
  %bit209 = and <16 x i32> %bit208, splat (i32 1)
  %bit210 = add <16 x i32> %cast205, splat (i32 32767)
  %bit211 = add <16 x i32> %bit210, %bit209
  %cast212 = select <16 x i1> %bit207, <16 x i32> %bit206, <16 x i32> %bit211
  %bit213 = lshr <16 x i32> %cast212, splat (i32 16)
  %cast214 = trunc <16 x i32> %bit213 to <16 x i16>
  %mul215 = mul nsw i64 %r0, 58
  %add216 = add nsw i64 %mul215, %mul78
  %add217 = add nsw i64 %mul215, %mul79
  %add218 = add nsw i64 %add216, %mul1
  %add219 = add nsw i64 %add216, %mul2
  %add220 = add nsw i64 %add217, %mul1
  %add221 = add nsw i64 %add217, %mul2
  %bits222 = bitcast <16 x i1> %and86 to i16
  %some223 = icmp ne i16 %bits222, 0
  %seen224 = select i1 %some223, i64 %add218, i64 0
  %p225 = getelementptr i16, ptr %data0, i64 %seen224
  call void @llvm.masked.store.v16i16.p0(<16 x i16> %cast184, ptr %p225, i32 2, <16 x i1> %and86)
  %bits226 = bitcast <16 x i1> %and87 to i16
  %some227 = icmp ne i16 %bits226, 0
  %seen228 = select i1 %some227, i64 %add219, i64 0
  %p229 = getelementptr i16, ptr %data0, i64 %seen228
  call void @llvm.masked.store.v16i16.p0(<16 x i16> %cast194, ptr %p229, i32 2, <16 x i1> %and87)
  %bits230 = bitcast <16 x i1> %and90 to i16
  %some231 = icmp ne i16 %bits230, 0
  %seen232 = select i1 %some231, i64 %add220, i64 0
  %p233 = getelementptr i16, ptr %data0, i64 %seen232
  call void @llvm.masked.store.v16i16.p0(<16 x i16> %cast204, ptr %p233, i32 2, <16 x i1> %and90)
  %bits234 = bitcast <16 x i1> %and91 to i16
  %some235 = icmp ne i16 %bits234, 0
  %seen236 = select i1 %some235, i64 %add221, i64 0
  %p237 = getelementptr i16, ptr %data0, i64 %seen236
  call void @llvm.masked.store.v16i16.p0(<16 x i16> %cast214, ptr %p237, i32 2, <16 x i1> %and91)
  br label %latch0
latch0:
  %next0 = add nuw nsw i64 %r0, 1
  %more238 = icmp slt i64 %next0, 19
  br i1 %more238, label %loop0, label %exit0
exit0:
  ret void
}

define void @"r_37_29_41"(ptr %buffers, ptr %variables) #0 {
  %at0 = getelementptr ptr, ptr %buffers, i64 0
  %data0 = load ptr, ptr %at0
  %at1 = getelementptr ptr, ptr %buffers, i64 1
  %data1 = load ptr, ptr %at1
  %at2 = getelementptr ptr, ptr %buffers, i64 2
  %data2 = load ptr, ptr %at2
  %room = getelementptr ptr, ptr %variables, i64 2
  %scratch = load ptr, ptr %room
  call void @"r_37_29_41.body"(ptr %data0, ptr %data1, ptr %data2, ptr %scratch)
  ret void
}

declare <16 x float> @dot2(<16 x float>, <32 x bfloat>, <32 x bfloat>)
declare <16 x i16> @llvm.masked.load.v16i16.p0(ptr, i32, <16 x i1>, <16 x i16>)
declare void @llvm.masked.store.v16i16.p0(<16 x i16>, ptr, i32, <16 x i1>)
attributes #0 = { nounwind }
