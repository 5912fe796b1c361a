; r_37_29_41: dot(2, 0, 0), stage(1, 3, 32, 16)
define internal void @"r_37_29_41.body"(ptr noalias %data0, ptr noalias readonly %data1, ptr noalias readonly %data2) #0 {
entry:
  %local0 = alloca [640 x i32], align 64
  %acc0_0_0 = alloca <16 x float>
  %acc0_0_1 = alloca <16 x float>
  %acc0_1_0 = alloca <16 x float>
  %acc0_1_1 = alloca <16 x float>
  %acc0_2_0 = alloca <16 x float>
  %acc0_2_1 = alloca <16 x float>
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
  %p27 = getelementptr i16, ptr %data2, i64 %add25
  %call28 = call <16 x i16> @llvm.masked.load.v16i16.p0(ptr %p27, i32 2, <16 x i1> %cmplt19, <16 x i16> zeroinitializer)
  %p29 = getelementptr i16, ptr %data2, i64 %add26
  %call30 = call <16 x i16> @llvm.masked.load.v16i16.p0(ptr %p29, i32 2, <16 x i1> %cmplt20, <16 x i16> zeroinitializer)
  %cast31 = zext <16 x i16> %call28 to <16 x i32>
  %cast32 = zext <16 x i16> %call30 to <16 x i32>
  %add33 = add nsw i64 %add25, 29
  %add34 = add nsw i64 %add26, 29
  %p35 = getelementptr i16, ptr %data2, i64 %add33
  %call36 = call <16 x i16> @llvm.masked.load.v16i16.p0(ptr %p35, i32 2, <16 x i1> %cmplt19, <16 x i16> zeroinitializer)
  %p37 = getelementptr i16, ptr %data2, i64 %add34
  %call38 = call <16 x i16> @llvm.masked.load.v16i16.p0(ptr %p37, i32 2, <16 x i1> %cmplt20, <16 x i16> zeroinitializer)
  %cast39 = zext <16 x i16> %call36 to <16 x i32>
  %cast40 = zext <16 x i16> %call38 to <16 x i32>
  %shl41 = shl <16 x i32> %cast39, splat (i32 16)
  %shl42 = shl <16 x i32> %cast40, splat (i32 16)
  %or43 = or <16 x i32> %cast31, %shl41
  %or44 = or <16 x i32> %cast32, %shl42
  %p45 = getelementptr inbounds i32, ptr %local0, i64 %add22
  store <16 x i32> %or43, ptr %p45, align 4
  %p46 = getelementptr inbounds i32, ptr %local0, i64 %add23
  store <16 x i32> %or44, ptr %p46, align 4
  br label %latch7
latch7:
  %next7 = add nuw nsw i64 %r7, 1
  %more47 = icmp slt i64 %next7, 20
  br i1 %more47, label %loop7, label %exit7
exit7:
  %add48 = add nsw i64 %mul1, 1160
  %add49 = add nsw i64 %mul2, 1160
  %p50 = getelementptr i16, ptr %data2, i64 %add48
  %call51 = call <16 x i16> @llvm.masked.load.v16i16.p0(ptr %p50, i32 2, <16 x i1> %cmplt9, <16 x i16> zeroinitializer)
  %p52 = getelementptr i16, ptr %data2, i64 %add49
  %call53 = call <16 x i16> @llvm.masked.load.v16i16.p0(ptr %p52, i32 2, <16 x i1> %cmplt10, <16 x i16> zeroinitializer)
  %cast54 = zext <16 x i16> %call51 to <16 x i32>
  %bit55 = shl <16 x i32> %cast54, splat (i32 16)
  %cast56 = bitcast <16 x i32> %bit55 to <16 x float>
  %cast57 = zext <16 x i16> %call53 to <16 x i32>
  %bit58 = shl <16 x i32> %cast57, splat (i32 16)
  %cast59 = bitcast <16 x i32> %bit58 to <16 x float>
  %mul60 = mul nsw i64 0, 29
  %mul61 = mul nsw i64 1, 29
  %mul62 = mul nsw i64 2, 29
  br label %loop0
loop0:
  %r0 = phi i64 [ 0, %exit7 ], [ %next0, %latch0 ]
  %mul63 = mul nsw i64 %r0, 3
  %add64 = add nsw i64 %mul63, 1
  %add65 = add nsw i64 %mul63, 2
  %cmplt66 = icmp slt i64 %mul63, 37
  %cmplt67 = icmp slt i64 %add64, 37
  %cmplt68 = icmp slt i64 %add65, 37
  %first69 = insertelement <16 x i1> poison, i1 %cmplt66, i64 0
  %splat70 = shufflevector <16 x i1> %first69, <16 x i1> poison, <16 x i32> zeroinitializer
  %and71 = and <16 x i1> %splat70, %cmplt9
  %and72 = and <16 x i1> %splat70, %cmplt10
  %first73 = insertelement <16 x i1> poison, i1 %cmplt67, i64 0
  %splat74 = shufflevector <16 x i1> %first73, <16 x i1> poison, <16 x i32> zeroinitializer
  %and75 = and <16 x i1> %splat74, %cmplt9
  %and76 = and <16 x i1> %splat74, %cmplt10
  %first77 = insertelement <16 x i1> poison, i1 %cmplt68, i64 0
  %splat78 = shufflevector <16 x i1> %first77, <16 x i1> poison, <16 x i32> zeroinitializer
  %and79 = and <16 x i1> %splat78, %cmplt9
  %and80 = and <16 x i1> %splat78, %cmplt10
  store <16 x float> splat (float 0.0), ptr %acc0_0_0
  store <16 x float> splat (float 0.0), ptr %acc0_0_1
  store <16 x float> splat (float 0.0), ptr %acc0_1_0
  store <16 x float> splat (float 0.0), ptr %acc0_1_1
  store <16 x float> splat (float 0.0), ptr %acc0_2_0
  store <16 x float> splat (float 0.0), ptr %acc0_2_1
  %cmplt81 = icmp slt i64 36, %mul63
  %cmplt82 = icmp slt i64 36, %add64
  %cmplt83 = icmp slt i64 36, %add65
  %where84 = select i1 %cmplt81, i64 36, i64 %mul63
  %where85 = select i1 %cmplt82, i64 36, i64 %add64
  %where86 = select i1 %cmplt83, i64 36, i64 %add65
  %mul87 = mul nsw i64 %where84, 41
  %mul88 = mul nsw i64 %where85, 41
  %mul89 = mul nsw i64 %where86, 41
  br label %loop4
loop4:
  %r4 = phi i64 [ 0, %loop0 ], [ %next4, %latch4 ]
  %mul90 = mul nsw i64 %r4, 2
  %add91 = add nsw i64 %mul87, %mul90
  %add92 = add nsw i64 %mul88, %mul90
  %add93 = add nsw i64 %mul89, %mul90
  %p94 = getelementptr inbounds i16, ptr %data1, i64 %add91
  %load95 = load i16, ptr %p94, align 2
  %p96 = getelementptr inbounds i16, ptr %data1, i64 %add92
  %load97 = load i16, ptr %p96, align 2
  %p98 = getelementptr inbounds i16, ptr %data1, i64 %add93
  %load99 = load i16, ptr %p98, align 2
  %cast100 = zext i16 %load95 to i32
  %cast101 = zext i16 %load97 to i32
  %cast102 = zext i16 %load99 to i32
  %add103 = add nsw i64 %add91, 1
  %add104 = add nsw i64 %add92, 1
  %add105 = add nsw i64 %add93, 1
  %p106 = getelementptr inbounds i16, ptr %data1, i64 %add103
  %load107 = load i16, ptr %p106, align 2
  %p108 = getelementptr inbounds i16, ptr %data1, i64 %add104
  %load109 = load i16, ptr %p108, align 2
  %p110 = getelementptr inbounds i16, ptr %data1, i64 %add105
  %load111 = load i16, ptr %p110, align 2
  %cast112 = zext i16 %load107 to i32
  %cast113 = zext i16 %load109 to i32
  %cast114 = zext i16 %load111 to i32
  %shl115 = shl i32 %cast112, 16
  %shl116 = shl i32 %cast113, 16
  %shl117 = shl i32 %cast114, 16
  %or118 = or i32 %cast100, %shl115
  %or119 = or i32 %cast101, %shl116
  %or120 = or i32 %cast102, %shl117
  %mul121 = mul nsw i64 %r4, 32
  %add122 = add nsw i64 %mul121, %mul1
  %add123 = add nsw i64 %mul121, %mul2
  %p124 = getelementptr inbounds i32, ptr %local0, i64 %add122
  %load125 = load <16 x i32>, ptr %p124, align 4
  %p126 = getelementptr inbounds i32, ptr %local0, i64 %add123
  %load127 = load <16 x i32>, ptr %p126, align 4
  %first128 = insertelement <16 x i32> poison, i32 %or118, i64 0
  %splat129 = shufflevector <16 x i32> %first128, <16 x i32> poison, <16 x i32> zeroinitializer
  %old130 = load <16 x float>, ptr %acc0_0_0
  %words131 = bitcast <16 x i32> %splat129 to <32 x bfloat>
  %words132 = bitcast <16 x i32> %load125 to <32 x bfloat>
  %dot133 = call <16 x float> @dot2(<16 x float> %old130, <32 x bfloat> %words131, <32 x bfloat> %words132)
  store <16 x float> %dot133, ptr %acc0_0_0
  %old134 = load <16 x float>, ptr %acc0_0_1
  %words135 = bitcast <16 x i32> %splat129 to <32 x bfloat>
  %words136 = bitcast <16 x i32> %load127 to <32 x bfloat>
  %dot137 = call <16 x float> @dot2(<16 x float> %old134, <32 x bfloat> %words135, <32 x bfloat> %words136)
  store <16 x float> %dot137, ptr %acc0_0_1
  %first138 = insertelement <16 x i32> poison, i32 %or119, i64 0
  %splat139 = shufflevector <16 x i32> %first138, <16 x i32> poison, <16 x i32> zeroinitializer
  %old140 = load <16 x float>, ptr %acc0_1_0
  %words141 = bitcast <16 x i32> %splat139 to <32 x bfloat>
  %words142 = bitcast <16 x i32> %load125 to <32 x bfloat>
  %dot143 = call <16 x float> @dot2(<16 x float> %old140, <32 x bfloat> %words141, <32 x bfloat> %words142)
  store <16 x float> %dot143, ptr %acc0_1_0
  %old144 = load <16 x float>, ptr %acc0_1_1
  %words145 = bitcast <16 x i32> %splat139 to <32 x bfloat>
  %words146 = bitcast <16 x i32> %load127 to <32 x bfloat>
  %dot147 = call <16 x float> @dot2(<16 x float> %old144, <32 x bfloat> %words145, <32 x bfloat> %words146)
  store <16 x float> %dot147, ptr %acc0_1_1
  %first148 = insertelement <16 x i32> poison, i32 %or120, i64 0
  %splat149 = shufflevector <16 x i32> %first148, <16 x i32> poison, <16 x i32> zeroinitializer
  %old150 = load <16 x float>, ptr %acc0_2_0
  %words151 = bitcast <16 x i32> %splat149 to <32 x bfloat>
  %words152 = bitcast <16 x i32> %load125 to <32 x bfloat>
  %dot153 = call <16 x float> @dot2(<16 x float> %old150, <32 x bfloat> %words151, <32 x bfloat> %words152)
  store <16 x float> %dot153, ptr %acc0_2_0
  %old154 = load <16 x float>, ptr %acc0_2_1
  %words155 = bitcast <16 x i32> %splat149 to <32 x bfloat>
  %words156 = bitcast <16 x i32> %load127 to <32 x bfloat>
  %dot157 = call <16 x float> @dot2(<16 x float> %old154, <32 x bfloat> %words155, <32 x bfloat> %words156)
  store <16 x float> %dot157, ptr %acc0_2_1
  br label %latch4
latch4:
  %next4 = add nuw nsw i64 %r4, 1
  %more158 = icmp slt i64 %next4, 20
  br i1 %more158, label %loop4, label %exit4
exit4:
  %get159 = load <16 x float>, ptr %acc0_0_0
  %get160 = load <16 x float>, ptr %acc0_0_1
  %get161 = load <16 x float>, ptr %acc0_1_0
  %get162 = load <16 x float>, ptr %acc0_1_1
  %get163 = load <16 x float>, ptr %acc0_2_0
  %get164 = load <16 x float>, ptr %acc0_2_1
  %add165 = add nsw i64 %mul87, 40
  %add166 = add nsw i64 %mul88, 40
  %add167 = add nsw i64 %mul89, 40
  %p168 = getelementptr inbounds i16, ptr %data1, i64 %add165
  %load169 = load i16, ptr %p168, align 2
  %p170 = getelementptr inbounds i16, ptr %data1, i64 %add166
  %load171 = load i16, ptr %p170, align 2
  %p172 = getelementptr inbounds i16, ptr %data1, i64 %add167
  %load173 = load i16, ptr %p172, align 2
  %cast174 = zext i16 %load169 to i32
  %bit175 = shl i32 %cast174, 16
  %cast176 = bitcast i32 %bit175 to float
  %cast177 = zext i16 %load171 to i32
  %bit178 = shl i32 %cast177, 16
  %cast179 = bitcast i32 %bit178 to float
  %cast180 = zext i16 %load173 to i32
  %bit181 = shl i32 %cast180, 16
  %cast182 = bitcast i32 %bit181 to float
  %first183 = insertelement <16 x float> poison, float %cast176, i64 0
  %splat184 = shufflevector <16 x float> %first183, <16 x float> poison, <16 x i32> zeroinitializer
  %mul185 = fmul <16 x float> %splat184, %cast56
  %mul186 = fmul <16 x float> %splat184, %cast59
  %first187 = insertelement <16 x float> poison, float %cast179, i64 0
  %splat188 = shufflevector <16 x float> %first187, <16 x float> poison, <16 x i32> zeroinitializer
  %mul189 = fmul <16 x float> %splat188, %cast56
  %mul190 = fmul <16 x float> %splat188, %cast59
  %first191 = insertelement <16 x float> poison, float %cast182, i64 0
  %splat192 = shufflevector <16 x float> %first191, <16 x float> poison, <16 x i32> zeroinitializer
  %mul193 = fmul <16 x float> %splat192, %cast56
  %mul194 = fmul <16 x float> %splat192, %cast59
  %add195 = fadd <16 x float> %get159, %mul185
  %add196 = fadd <16 x float> %get160, %mul186
  %add197 = fadd <16 x float> %get161, %mul189
  %add198 = fadd <16 x float> %get162, %mul190
  %add199 = fadd <16 x float> %get163, %mul193
  %add200 = fadd <16 x float> %get164, %mul194
  %cast201 = bitcast <16 x float> %add195 to <16 x i32>
  %bit202 = or <16 x i32> %cast201, splat (i32 4194304)
  %bit203 = fcmp uno <16 x float> %add195, splat (float 0.0)
  %bit204 = lshr <16 x i32> %cast201, splat (i32 16)
  %bit205 = and <16 x i32> %bit204, splat (i32 1)
  %bit206 = add <16 x i32> %cast201, splat (i32 32767)
  %bit207 = add <16 x i32> %bit206, %bit205
  %cast208 = select <16 x i1> %bit203, <16 x i32> %bit202, <16 x i32> %bit207
  %bit209 = lshr <16 x i32> %cast208, splat (i32 16)
  %cast210 = trunc <16 x i32> %bit209 to <16 x i16>
  %cast211 = bitcast <16 x float> %add196 to <16 x i32>
  %bit212 = or <16 x i32> %cast211, splat (i32 4194304)
  %bit213 = fcmp uno <16 x float> %add196, splat (float 0.0)
  %bit214 = lshr <16 x i32> %cast211, splat (i32 16)
  %bit215 = and <16 x i32> %bit214, splat (i32 1)
  %bit216 = add <16 x i32> %cast211, splat (i32 32767)
  %bit217 = add <16 x i32> %bit216, %bit215
  %cast218 = select <16 x i1> %bit213, <16 x i32> %bit212, <16 x i32> %bit217
  %bit219 = lshr <16 x i32> %cast218, splat (i32 16)
  %cast220 = trunc <16 x i32> %bit219 to <16 x i16>
  %cast221 = bitcast <16 x float> %add197 to <16 x i32>
  %bit222 = or <16 x i32> %cast221, splat (i32 4194304)
  %bit223 = fcmp uno <16 x float> %add197, splat (float 0.0)
  %bit224 = lshr <16 x i32> %cast221, splat (i32 16)
  %bit225 = and <16 x i32> %bit224, splat (i32 1)
  %bit226 = add <16 x i32> %cast221, splat (i32 32767)
  %bit227 = add <16 x i32> %bit226, %bit225
  %cast228 = select <16 x i1> %bit223, <16 x i32> %bit222, <16 x i32> %bit227
  %bit229 = lshr <16 x i32> %cast228, splat (i32 16)
  %cast230 = trunc <16 x i32> %bit229 to <16 x i16>
  %cast231 = bitcast <16 x float> %add198 to <16 x i32>
  %bit232 = or <16 x i32> %cast231, splat (i32 4194304)
  %bit233 = fcmp uno <16 x float> %add198, splat (float 0.0)
  %bit234 = lshr <16 x i32> %cast231, splat (i32 16)
  %bit235 = and <16 x i32> %bit234, splat (i32 1)
  %bit236 = add <16 x i32> %cast231, splat (i32 32767)
  %bit237 = add <16 x i32> %bit236, %bit235
  %cast238 = select <16 x i1> %bit233, <16 x i32> %bit232, <16 x i32> %bit237
  %bit239 = lshr <16 x i32> %cast238, splat (i32 16)
  %cast240 = trunc <16 x i32> %bit239 to <16 x i16>
  %cast241 = bitcast <16 x float> %add199 to <16 x i32>
  %bit242 = or <16 x i32> %cast241, splat (i32 4194304)
  %bit243 = fcmp uno <16 x float> %add199, splat (float 0.0)
  %bit244 = lshr <16 x i32> %cast241, splat (i32 16)
  %bit245 = and <16 x i32> %bit244, splat (i32 1)
  %bit246 = add <16 x i32> %cast241, splat (i32 32767)
  %bit247 = add <16 x i32> %bit246, %bit245
  %cast248 = select <16 x i1> %bit243, <16 x i32> %bit242, <16 x i32> %bit247
  %bit249 = lshr <16 x i32> %cast248, splat (i32 16)
  %cast250 = trunc <16 x i32> %bit249 to <16 x i16>
  %cast251 = bitcast <16 x float> %add200 to <16 x i32>
  %bit252 = or <16 x i32> %cast251, splat (i32 4194304)
  %bit253 = fcmp uno <16 x float> %add200, splat (float 0.0)
  %bit254 = lshr <16 x i32> %cast251, splat (i32 16)
  %bit255 = and <16 x i32> %bit254, splat (i32 1)
  %bit256 = add <16 x i32> %cast251, splat (i32 32767)
  %bit257 = add <16 x i32> %bit256, %bit255
  %cast258 = select <16 x i1> %bit253, <16 x i32> %bit252, <16 x i32> %bit257
  %bit259 = lshr <16 x i32> %cast258, splat (i32 16)
  %cast260 = trunc <16 x i32> %bit259 to <16 x i16>
  %mul261 = mul nsw i64 %r0, 87
  %add262 = add nsw i64 %mul261, %mul60
  %add263 = add nsw i64 %mul261, %mul61
  %add264 = add nsw i64 %mul261, %mul62
  %add265 = add nsw i64 %add262, %mul1
  %add266 = add nsw i64 %add262, %mul2
  %add267 = add nsw i64 %add263, %mul1
  %add268 = add nsw i64 %add263, %mul2
  %add269 = add nsw i64 %add264, %mul1
  %add270 = add nsw i64 %add264, %mul2
  %p271 = getelementptr i16, ptr %data0, i64 %add265
  call void @llvm.masked.store.v16i16.p0(<16 x i16> %cast210, ptr %p271, i32 2, <16 x i1> %and71)
  %p272 = getelementptr i16, ptr %data0, i64 %add266
  call void @llvm.masked.store.v16i16.p0(<16 x i16> %cast220, ptr %p272, i32 2, <16 x i1> %and72)
  %p273 = getelementptr i16, ptr %data0, i64 %add267
  call void @llvm.masked.store.v16i16.p0(<16 x i16> %cast230, ptr %p273, i32 2, <16 x i1> %and75)
  %p274 = getelementptr i16, ptr %data0, i64 %add268
  call void @llvm.masked.store.v16i16.p0(<16 x i16> %cast240, ptr %p274, i32 2, <16 x i1> %and76)
  %p275 = getelementptr i16, ptr %data0, i64 %add269
  call void @llvm.masked.store.v16i16.p0(<16 x i16> %cast250, ptr %p275, i32 2, <16 x i1> %and79)
  %p276 = getelementptr i16, ptr %data0, i64 %add270
  call void @llvm.masked.store.v16i16.p0(<16 x i16> %cast260, ptr %p276, i32 2, <16 x i1> %and80)
  br label %latch0
latch0:
  %next0 = add nuw nsw i64 %r0, 1
  %more277 = icmp slt i64 %next0, 13
  br i1 %more277, label %loop0, label %exit0
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
  call void @"r_37_29_41.body"(ptr %data0, ptr %data1, ptr %data2)
  ret void
}

declare <16 x float> @dot2(<16 x float>, <32 x bfloat>, <32 x bfloat>)
declare <16 x i16> @llvm.masked.load.v16i16.p0(ptr, i32, <16 x i1>, <16 x i16>)
declare void @llvm.masked.store.v16i16.p0(<16 x i16>, ptr, i32, <16 x i1>)
attributes #0 = { nounwind }
