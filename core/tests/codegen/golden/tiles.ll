; r_61_67_101: matrix(1, 1, 2x2, 64, 128, 1)
define internal void @"r_61_67_101.body"(ptr noalias %data0, ptr noalias readonly %data1, ptr noalias readonly %data2, ptr noalias %scratch) #0 {
entry:
  %local2 = getelementptr inbounds i8, ptr %scratch, i64 0
  %local0 = getelementptr inbounds i8, ptr %scratch, i64 8192
  %local1 = getelementptr inbounds i8, ptr %scratch, i64 12288
  call void @begin()
  %mul1 = mul nsw i64 0, 1024
  %mul2 = mul nsw i64 1, 1024
  %mul3 = mul nsw i64 0, 16
  %mul4 = mul nsw i64 1, 16
  %mul5 = mul nsw i64 0, 2048
  %mul6 = mul nsw i64 1, 2048
  br label %loop0
loop0:
  %r0 = phi i64 [ 0, %entry ], [ %next0, %latch0 ]
  %mul7 = mul nsw i64 %r0, 64
  br label %loop13
loop13:
  %r13 = phi i64 [ 0, %loop0 ], [ %next13, %latch13 ]
  %mul8 = mul nsw i64 %r13, 64
  %mul9 = mul nsw i64 %r13, 268
  %add10 = add nsw i64 %mul7, %mul9
  %cmplt11 = icmp slt i64 %r13, 26
  %cmplt12 = icmp slt i64 %r13, 25
  br label %loop14
loop14:
  %r14 = phi i64 [ 0, %loop13 ], [ %next14, %latch14 ]
  %mul13 = mul nsw i64 %r14, 16
  %add14 = add nsw i64 %mul8, %mul13
  %add15 = add nsw i64 %add10, %mul13
  %add16 = add nsw i64 %mul7, %mul13
  %first17 = insertelement <16 x i64> poison, i64 %add16, i64 0
  %splat18 = shufflevector <16 x i64> %first17, <16 x i64> poison, <16 x i32> zeroinitializer
  %add19 = add nsw <16 x i64> %splat18, <i64 0, i64 1, i64 2, i64 3, i64 4, i64 5, i64 6, i64 7, i64 8, i64 9, i64 10, i64 11, i64 12, i64 13, i64 14, i64 15>
  %cmplt20 = icmp slt <16 x i64> %add19, splat (i64 67)
  %first21 = insertelement <16 x i1> poison, i1 %cmplt11, i64 0
  %splat22 = shufflevector <16 x i1> %first21, <16 x i1> poison, <16 x i32> zeroinitializer
  %and23 = and <16 x i1> %splat22, %cmplt20
  %bits24 = bitcast <16 x i1> %and23 to i16
  %some25 = icmp ne i16 %bits24, 0
  %seen26 = select i1 %some25, i64 %add15, i64 0
  %p27 = getelementptr i8, ptr %data2, i64 %seen26
  %call28 = call <16 x i8> @llvm.masked.load.v16i8.p0(ptr %p27, i32 1, <16 x i1> %and23, <16 x i8> zeroinitializer)
  %cast29 = zext <16 x i8> %call28 to <16 x i32>
  %add30 = add nsw i64 %add15, 67
  %first31 = insertelement <16 x i1> poison, i1 %cmplt12, i64 0
  %splat32 = shufflevector <16 x i1> %first31, <16 x i1> poison, <16 x i32> zeroinitializer
  %and33 = and <16 x i1> %splat32, %cmplt20
  %bits34 = bitcast <16 x i1> %and33 to i16
  %some35 = icmp ne i16 %bits34, 0
  %seen36 = select i1 %some35, i64 %add30, i64 0
  %p37 = getelementptr i8, ptr %data2, i64 %seen36
  %call38 = call <16 x i8> @llvm.masked.load.v16i8.p0(ptr %p37, i32 1, <16 x i1> %and33, <16 x i8> zeroinitializer)
  %cast39 = zext <16 x i8> %call38 to <16 x i32>
  %shl40 = shl <16 x i32> %cast39, splat (i32 8)
  %or41 = or <16 x i32> %cast29, %shl40
  %add42 = add nsw i64 %add15, 134
  %bits43 = bitcast <16 x i1> %and33 to i16
  %some44 = icmp ne i16 %bits43, 0
  %seen45 = select i1 %some44, i64 %add42, i64 0
  %p46 = getelementptr i8, ptr %data2, i64 %seen45
  %call47 = call <16 x i8> @llvm.masked.load.v16i8.p0(ptr %p46, i32 1, <16 x i1> %and33, <16 x i8> zeroinitializer)
  %cast48 = zext <16 x i8> %call47 to <16 x i32>
  %shl49 = shl <16 x i32> %cast48, splat (i32 16)
  %or50 = or <16 x i32> %or41, %shl49
  %add51 = add nsw i64 %add15, 201
  %bits52 = bitcast <16 x i1> %and33 to i16
  %some53 = icmp ne i16 %bits52, 0
  %seen54 = select i1 %some53, i64 %add51, i64 0
  %p55 = getelementptr i8, ptr %data2, i64 %seen54
  %call56 = call <16 x i8> @llvm.masked.load.v16i8.p0(ptr %p55, i32 1, <16 x i1> %and33, <16 x i8> zeroinitializer)
  %cast57 = zext <16 x i8> %call56 to <16 x i32>
  %shl58 = shl <16 x i32> %cast57, splat (i32 24)
  %or59 = or <16 x i32> %or50, %shl58
  %p60 = getelementptr inbounds i32, ptr %local1, i64 %add14
  store <16 x i32> %or59, ptr %p60, align 4
  br label %latch14
latch14:
  %next14 = add nuw nsw i64 %r14, 1
  %more61 = icmp slt i64 %next14, 4
  br i1 %more61, label %loop14, label %exit14
exit14:
  br label %latch13
latch13:
  %next13 = add nuw nsw i64 %r13, 1
  %more62 = icmp slt i64 %next13, 32
  br i1 %more62, label %loop13, label %exit13
exit13:
  br label %loop1
loop1:
  %r1 = phi i64 [ 0, %exit13 ], [ %next1, %latch1 ]
  %mul63 = mul nsw i64 %r1, 32
  %mul64 = mul nsw i64 %r1, 3232
  br label %loop10
loop10:
  %r10 = phi i64 [ 0, %loop1 ], [ %next10, %latch10 ]
  %mul65 = mul nsw i64 %r10, 128
  %mul66 = mul nsw i64 %r10, 101
  %add67 = add nsw i64 %mul64, %mul66
  %add68 = add nsw i64 %mul63, %r10
  %cmplt69 = icmp slt i64 %add68, 61
  br label %loop11
loop11:
  %r11 = phi i64 [ 0, %loop10 ], [ %next11, %latch11 ]
  %mul70 = mul nsw i64 %r11, 64
  %add71 = add nsw i64 %mul65, %mul70
  %add72 = add nsw i64 %add67, %mul70
  %first73 = insertelement <64 x i64> poison, i64 %mul70, i64 0
  %splat74 = shufflevector <64 x i64> %first73, <64 x i64> poison, <64 x i32> zeroinitializer
  %add75 = add nsw <64 x i64> %splat74, <i64 0, i64 1, i64 2, i64 3, i64 4, i64 5, i64 6, i64 7, i64 8, i64 9, i64 10, i64 11, i64 12, i64 13, i64 14, i64 15, i64 16, i64 17, i64 18, i64 19, i64 20, i64 21, i64 22, i64 23, i64 24, i64 25, i64 26, i64 27, i64 28, i64 29, i64 30, i64 31, i64 32, i64 33, i64 34, i64 35, i64 36, i64 37, i64 38, i64 39, i64 40, i64 41, i64 42, i64 43, i64 44, i64 45, i64 46, i64 47, i64 48, i64 49, i64 50, i64 51, i64 52, i64 53, i64 54, i64 55, i64 56, i64 57, i64 58, i64 59, i64 60, i64 61, i64 62, i64 63>
  %cmplt76 = icmp slt <64 x i64> %add75, splat (i64 101)
  %first77 = insertelement <64 x i1> poison, i1 %cmplt69, i64 0
  %splat78 = shufflevector <64 x i1> %first77, <64 x i1> poison, <64 x i32> zeroinitializer
  %and79 = and <64 x i1> %splat78, %cmplt76
  %bits80 = bitcast <64 x i1> %and79 to i64
  %some81 = icmp ne i64 %bits80, 0
  %seen82 = select i1 %some81, i64 %add72, i64 0
  %p83 = getelementptr i8, ptr %data1, i64 %seen82
  %call84 = call <64 x i8> @llvm.masked.load.v64i8.p0(ptr %p83, i32 1, <64 x i1> %and79, <64 x i8> zeroinitializer)
  %p85 = getelementptr inbounds i8, ptr %local0, i64 %add71
  store <64 x i8> %call84, ptr %p85, align 1
  br label %latch11
latch11:
  %next11 = add nuw nsw i64 %r11, 1
  %more86 = icmp slt i64 %next11, 2
  br i1 %more86, label %loop11, label %exit11
exit11:
  br label %latch10
latch10:
  %next10 = add nuw nsw i64 %r10, 1
  %more87 = icmp slt i64 %next10, 32
  br i1 %more87, label %loop10, label %exit10
exit10:
  br label %loop7
loop7:
  %r7 = phi i64 [ 0, %exit10 ], [ %next7, %latch7 ]
  call void @zero(i8 0)
  call void @zero(i8 1)
  call void @zero(i8 2)
  call void @zero(i8 3)
  %mul88 = mul nsw i64 %r7, 32
  %add89 = add nsw i64 %mul88, %mul1
  %add90 = add nsw i64 %mul88, %mul2
  %add91 = add nsw i64 %add89, %mul3
  %add92 = add nsw i64 %add89, %mul4
  %add93 = add nsw i64 %add90, %mul3
  %add94 = add nsw i64 %add90, %mul4
  br label %loop8
loop8:
  %r8 = phi i64 [ 0, %loop7 ], [ %next8, %latch8 ]
  %mul95 = mul nsw i64 %r8, 64
  %add96 = add nsw i64 %mul95, %mul5
  %add97 = add nsw i64 %mul95, %mul6
  %mul98 = mul nsw i64 %r8, 1024
  %add99 = add nsw i64 %mul88, %mul98
  %add100 = add nsw i64 %add99, %mul3
  %add101 = add nsw i64 %add99, %mul4
  %p102 = getelementptr inbounds i8, ptr %local0, i64 %add96
  call void @load(i8 4, ptr %p102, i64 128)
  %p103 = getelementptr inbounds i8, ptr %local0, i64 %add97
  call void @load(i8 5, ptr %p103, i64 128)
  %p104 = getelementptr inbounds i32, ptr %local1, i64 %add100
  call void @load(i8 6, ptr %p104, i64 256)
  %p105 = getelementptr inbounds i32, ptr %local1, i64 %add101
  call void @load(i8 7, ptr %p105, i64 256)
  call void @multiply(i8 0, i8 4, i8 6)
  call void @multiply(i8 1, i8 4, i8 7)
  call void @multiply(i8 2, i8 5, i8 6)
  call void @multiply(i8 3, i8 5, i8 7)
  br label %latch8
latch8:
  %next8 = add nuw nsw i64 %r8, 1
  %more106 = icmp slt i64 %next8, 2
  br i1 %more106, label %loop8, label %exit8
exit8:
  %p107 = getelementptr inbounds i32, ptr %local2, i64 %add91
  call void @store(i8 0, ptr %p107, i64 256)
  %p108 = getelementptr inbounds i32, ptr %local2, i64 %add92
  call void @store(i8 1, ptr %p108, i64 256)
  %p109 = getelementptr inbounds i32, ptr %local2, i64 %add93
  call void @store(i8 2, ptr %p109, i64 256)
  %p110 = getelementptr inbounds i32, ptr %local2, i64 %add94
  call void @store(i8 3, ptr %p110, i64 256)
  br label %latch7
latch7:
  %next7 = add nuw nsw i64 %r7, 1
  %more111 = icmp slt i64 %next7, 2
  br i1 %more111, label %loop7, label %exit7
exit7:
  %mul112 = mul nsw i64 %r1, 2144
  %add113 = add nsw i64 %mul7, %mul112
  br label %loop2
loop2:
  %r2 = phi i64 [ 0, %exit7 ], [ %next2, %latch2 ]
  %add114 = add nsw i64 %mul63, %r2
  %cmplt115 = icmp slt i64 %add114, 61
  %mul116 = mul nsw i64 %r2, 64
  %mul117 = mul nsw i64 %r2, 67
  %add118 = add nsw i64 %add113, %mul117
  br label %loop3
loop3:
  %r3 = phi i64 [ 0, %loop2 ], [ %next3, %latch3 ]
  %mul119 = mul nsw i64 %r3, 16
  %add120 = add nsw i64 %mul7, %mul119
  %first121 = insertelement <16 x i64> poison, i64 %add120, i64 0
  %splat122 = shufflevector <16 x i64> %first121, <16 x i64> poison, <16 x i32> zeroinitializer
  %add123 = add nsw <16 x i64> %splat122, <i64 0, i64 1, i64 2, i64 3, i64 4, i64 5, i64 6, i64 7, i64 8, i64 9, i64 10, i64 11, i64 12, i64 13, i64 14, i64 15>
  %cmplt124 = icmp slt <16 x i64> %add123, splat (i64 67)
  %first125 = insertelement <16 x i1> poison, i1 %cmplt115, i64 0
  %splat126 = shufflevector <16 x i1> %first125, <16 x i1> poison, <16 x i32> zeroinitializer
  %and127 = and <16 x i1> %splat126, %cmplt124
  %add128 = add nsw i64 %mul116, %mul119
  %p129 = getelementptr inbounds i32, ptr %local2, i64 %add128
  %load130 = load <16 x i32>, ptr %p129, align 4
  %add131 = add nsw i64 %add118, %mul119
  %bits132 = bitcast <16 x i1> %and127 to i16
  %some133 = icmp ne i16 %bits132, 0
  %seen134 = select i1 %some133, i64 %add131, i64 0
  %p135 = getelementptr i32, ptr %data0, i64 %seen134
  call void @llvm.masked.store.v16i32.p0(<16 x i32> %load130, ptr %p135, i32 4, <16 x i1> %and127)
  br label %latch3
latch3:
  %next3 = add nuw nsw i64 %r3, 1
  %more136 = icmp slt i64 %next3, 4
  br i1 %more136, label %loop3, label %exit3
exit3:
  br label %latch2
latch2:
  %next2 = add nuw nsw i64 %r2, 1
  %more137 = icmp slt i64 %next2, 32
  br i1 %more137, label %loop2, label %exit2
exit2:
  br label %latch1
latch1:
  %next1 = add nuw nsw i64 %r1, 1
  %more138 = icmp slt i64 %next1, 2
  br i1 %more138, label %loop1, label %exit1
exit1:
  br label %latch0
latch0:
  %next0 = add nuw nsw i64 %r0, 1
  %more139 = icmp slt i64 %next0, 2
  br i1 %more139, label %loop0, label %exit0
exit0:
  call void @end()
  ret void
}

define void @"r_61_67_101"(ptr %buffers, ptr %variables) #0 {
  %at0 = getelementptr ptr, ptr %buffers, i64 0
  %data0 = load ptr, ptr %at0
  %at1 = getelementptr ptr, ptr %buffers, i64 1
  %data1 = load ptr, ptr %at1
  %at2 = getelementptr ptr, ptr %buffers, i64 2
  %data2 = load ptr, ptr %at2
  %room = getelementptr ptr, ptr %variables, i64 2
  %scratch = load ptr, ptr %room
  call void @"r_61_67_101.body"(ptr %data0, ptr %data1, ptr %data2, ptr %scratch)
  ret void
}

; words of the unit
declare <16 x i8> @llvm.masked.load.v16i8.p0(ptr, i32, <16 x i1>, <16 x i8>)
declare <64 x i8> @llvm.masked.load.v64i8.p0(ptr, i32, <64 x i1>, <64 x i8>)
declare void @llvm.masked.store.v16i32.p0(<16 x i32>, ptr, i32, <16 x i1>)
attributes #0 = { nounwind }
